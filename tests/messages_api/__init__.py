"""A server with the Messages API, for tests and for trying things out with no network.

`server`   real HTTP on 127.0.0.1: `/v1/messages`, `/v1/messages/count_tokens`; also a command
`replies`  what it answers, faults included
`wire`     the form of a message, and of the events of a stream
`chat`     the same of the chat completions API, `/v1/chat/completions`, which the server speaks too
`manners`  what the real service refuses, and in which words
`kernels`  an expert that writes CPU candidates by rule

    with MessagesServer(lambda request: tool({"title": "…"})) as server:
        os.environ["ANTHROPIC_BASE_URL"] = server.url
"""
