// Package kernels is the catalogue of ops: it joins the lists of the packages below it, one for each family. Each op,
// or group of ops that are told apart by little, has one file there that answers everything about it: its
// documentation, operands and attributes, what it infers, which layouts it supports, its loops, and the index-by-index
// reference that defines it. What several ops need is in files without ops, by subject; what several families
// need, in packages under internal.
//
// Names, operands, attributes and defaults are those of aten's schema
// (native_functions.yaml). [Lookup] finds an op; [All] lists them.
package kernels
