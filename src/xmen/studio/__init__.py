"""Studio: a page on which people draw worlds, rules and demonstrations, and the server behind it.

The page (`page/`, plain JavaScript) keeps one document: the problem file as it is, and the demonstrations. The server
(`app`, behind its guard) checks it, saves it, and lets a worker process learn, generate and find rules. Everything
lives under one address with a random token, on 127.0.0.1 only.
"""
