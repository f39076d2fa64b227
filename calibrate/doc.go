// Package calibrate measures a machine for the prices of work: what bytes take by cache and kind of access, what
// inner kernels take for a unit of theirs, and what a step costs.
//
// Every kernel that works are priced by is listed by its family with calls that exercise it ([graph.Rate]). Each
// call is run by one worker as a network has it: others have driven constants and code out of the near caches, and its
// operands were just made. The median of many times counts. Then the rates are found for which prices come nearest to
// these times.
package calibrate
