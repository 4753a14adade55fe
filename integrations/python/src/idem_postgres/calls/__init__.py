"""idem's functions for applications as calls, a module for each page of the documentation. `Idem` and `AsyncIdem` run them."""
