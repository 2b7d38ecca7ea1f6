"""Serve a GGUF file over HTTP with llama.cpp: `serve_model.py PATH`, or `... PATH embeddings`.

Writes the server's address, one line, when the model is loaded. Ends with standard input, so that
it never outlives the tests that started it.
"""

import sys

import xllamacpp


def main(path, what="completions"):
    """Serve the file until standard input ends."""
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = 8192
    params.n_parallel = 4
    params.port = 0
    if what == "embeddings":
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    # A second thread spins while it waits for a core that the tests need.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
