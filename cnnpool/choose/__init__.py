"""Which downsampling for one network and one data set, within a budget."""
