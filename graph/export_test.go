package graph

// Aliases is what tests see of the names that other libraries have for ops.
var Aliases = aliases
