"""The paper's experiments as TOML files; `reproduce.reproduce` is the command."""
