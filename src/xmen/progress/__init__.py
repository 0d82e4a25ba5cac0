"""What happens while long work runs: records, callbacks, Ctrl-C, TensorBoard, lines that say how far it is."""
