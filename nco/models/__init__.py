"""Networks, their training modules and their data, one package per method."""
