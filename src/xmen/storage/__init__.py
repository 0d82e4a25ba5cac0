"""Models and checkpoints on disk: JSON and safetensors, never pickle."""
