// Package calibrate measures a machine and fits a [machine.Profile]. A profile has three kinds of prices. The price of
// accessing a byte depends on the access pattern and the cache level. Each inner kernel has a price of a unit of work.
// The third is the price of starting a step.
//
// [Run] returns a [Result]: the profile, and the measured and predicted time of each call.
//
// Each op family lists its inner kernels with calls that execute them ([graph.Rate]). A call runs on one worker under
// the conditions of a network. Other steps have evicted its constants and code from the private caches, and have just
// written its operands. The prices are fitted to the median times of the calls. The fit minimizes the squared relative
// errors of the predicted times by coordinate descent: it changes one price at a time.
//
// A device ([Options.Device]) is measured with its own kernels. Each price is fitted to the call on the most data,
// without the time of steps and of the wait for the device.
package calibrate
