"""Changes single places of the C++ sources and looks whether a test notices: tools/dev mutate, docs/building.md."""
