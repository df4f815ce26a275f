"""What `stark-lsp doctor` checks."""
