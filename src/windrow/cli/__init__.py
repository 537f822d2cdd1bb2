"""The command ``windrow``: one module per noun, each loaded when it is named."""
