package main

func Example() {
	main()
	// Output:
	// a norm of one's own, priced by a cost of one's own:
	// propagate     costs 1.0 of propagate, copies [], norm by planes
	// contiguous    costs 1.0 of propagate, copies [], norm by planes
	// channels_last costs 0.8 of propagate, copies [photo], norm by pixels
	// descent       costs 0.5 of propagate, copies [small], norm by pixels
	// checked after every pass, but for 0 outputs
	// class of 10 elements as the ops define it: true
	// score of 10 elements as the ops define it: true
}
