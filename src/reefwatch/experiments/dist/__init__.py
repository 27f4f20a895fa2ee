"""The distributed contract, tried out: collectives, parallel training, checkpoints, bandwidth."""
