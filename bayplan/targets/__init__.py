"""From the final statements to program text: one file a target over one C-family emitter."""
