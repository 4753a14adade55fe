module example.org/idem

go 1.19
