"""One module a sub-command of `deeploop`."""
