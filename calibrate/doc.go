// Package calibrate measures a machine for the prices of work: what bytes take by cache and kind of access, what
// inner kernels take for a unit of theirs, and what a step costs.
//
// Every kernel that works are priced by is listed by its family with calls that exercise it ([graph.Rate]). Each
// call is run as a graph of its own, by one worker, and the least time of many counts: what disturbs a machine only
// makes runs longer. Then the rates are found for which prices come nearest to these times.
package calibrate
