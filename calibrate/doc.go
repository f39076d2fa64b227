// Package calibrate measures a machine and fits a [machine.Profile]: the prices of bytes by access pattern
// and cache level, of inner kernels per unit of work, and of starting a step.
//
// [Run] measures and returns a [Result]: the profile, and every measured call beside its predicted time.
//
// Each op family lists the inner kernels that its work is priced by, with calls that exercise them
// ([graph.Rate]). Each call runs on one worker as in a network: constants and code have been evicted from the
// private caches by other steps, and its operands were just written. The median of all times counts. The
// rates are then fitted by coordinate descent to minimize the squared relative errors of the predicted times.
package calibrate
