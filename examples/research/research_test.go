package main

func Example() {
	main()
	// Output:
	// a norm of one's own, priced by a cost of one's own:
	// propagate     costs 100% of propagate, copies [], norm by planes
	// contiguous    costs 100% of propagate, copies [], norm by planes
	// channels_last costs  76% of propagate, copies [photo], norm by pixels
	// descent       costs  46% of propagate, copies [small], norm by pixels
	// class of 10 elements as the ops define it: true
	// score of 10 elements as the ops define it: true
}
