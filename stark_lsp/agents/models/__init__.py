"""Who answers questions: a service with the Messages API, the editor's model, a transcript.

`registry`   names and how each is built: the entry point
`journaled`  what agents are given: a model whose answers are kept and whose questions are paid for
`service`    what is alike in asking services by their SDKs
`anthropic`  a service with the Messages API, through the official SDK
`openai`     a service with the chat completions API, as many servers have it, through the official SDK
`editor`     the editor's own model
`replay`     a transcript

`reading`    from streamed events to an answer; `chunks` from those of the chat completions API
`features`   what a model takes, guessed and learned; `names` what a name tells
`failures`   what went wrong, and what mends it; `patience` how often to ask again
`purse`      limits of tokens and money; `metering` how broken tries are paid
`prices`     the price list, with `prices.toml`; `sizes` tokens of texts
`estimate`   what a run will take, before it starts
`secret`     the key

Invariants: nothing here reads a prompt's meaning or runs anything of an answer; the SDK is imported when the first
question is asked; the key is in no message, log or child.
"""
