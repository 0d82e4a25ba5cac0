"""What happens while a learner runs: records, callbacks, Ctrl-C, TensorBoard."""
