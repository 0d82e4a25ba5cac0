"""Behaviour that can be executed: policies with memory, what they can promise, and why not more."""
