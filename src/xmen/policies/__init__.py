"""Behaviour step by step: policies with memory that keep the rules."""
