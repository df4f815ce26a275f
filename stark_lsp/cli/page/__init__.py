"""A run as one HTML file: `run_page.html` with what the other files of the terminal say, and plots."""
