"""Models, policies and plans as tables: data frames, descriptions, pages for notebooks."""
