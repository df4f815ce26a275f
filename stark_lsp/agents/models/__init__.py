"""Who answers questions: a service with the Messages API, the editor's model, a transcript."""
