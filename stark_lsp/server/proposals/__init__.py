"""The proposal of a run: offered, reviewed, put into the document, and what follows."""
