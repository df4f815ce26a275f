"""The coding agent's side: an MCP server over standard input and output, with the judge and runs as tools."""
