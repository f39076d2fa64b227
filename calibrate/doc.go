// Package calibrate measures a machine and fits a [pricing.Profile]. A profile has three kinds of prices:
//   - the price of accessing a byte, by access pattern and cache level,
//   - the price of a unit of work of each inner kernel,
//   - the price of starting a step.
//
// [Run] returns a [Result]: the profile, its rates with their spreads, and the measured and predicted
// time of each call.
//
// Each op family lists its inner kernels. A [graph.Rate] is an inner kernel with the calls of ops that measure its
// price. A call runs on one worker, as it would run inside a network: earlier steps evict its constants and code from
// the private caches, and write its operands. All calls are measured once in each of several rounds. The prices are
// fitted to the lower quartiles of the times. The fit minimizes the squared relative errors of the predicted times by
// coordinate descent: it changes one price at a time.
//
// The fit is repeated for each pair of rounds. Prices that differ between these fits are uncertain, and are replaced by
// those of the built-in profile: see [Rate].
//
// A device ([Options.Device]) is measured with its own kernels instead of the calls of a [graph.Rate]. The overhead is
// the time for starting steps and waiting for the device. The size of the calls grows until the overhead is a small
// part of the time. The price is computed from the time of the largest call minus the overhead.
package calibrate
