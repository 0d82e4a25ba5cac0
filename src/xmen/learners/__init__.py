"""Learners: from demonstrations to a reward, under rules that hold without exception."""
