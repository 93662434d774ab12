"""How the rows of a query are spread over partitions so that the union of their answers is exact."""
