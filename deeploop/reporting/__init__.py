"""The report: tables, figures and the pages that hold them."""
