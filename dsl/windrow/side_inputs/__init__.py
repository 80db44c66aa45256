"""Side inputs: what functions see of other streams beside each element. Users make them by ``windrow.as_singleton``."""
