// Package kernels is the catalogue of ops. Each op, or family of ops, has one file that
// answers everything about it: its documentation, operands and attributes, what it infers,
// which layouts it serves, its loops, and the index-by-index reference that defines it.
//
// Names, operands, attributes and defaults are those of aten's schema
// (native_functions.yaml). [Lookup] finds an op; [All] lists them.
package kernels
