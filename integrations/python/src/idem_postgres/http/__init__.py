"""What every middleware does with a request. The modules for ASGI, WSGI and Django translate to and from it."""
