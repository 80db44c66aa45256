"""The queries; each module has a function that makes its pipeline from the streams and the folder of the result."""
