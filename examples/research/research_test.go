package main

func Example() {
	main()
	// Output:
	// a norm of one's own, priced by a cost of one's own:
	// propagate: the norm goes by planes, the photo is copied: false
	// channels_last: the norm goes by pixels, the photo is copied: true
	// optimal: the norm goes by pixels, the photo is copied: false
	// descent: the norm goes by pixels, the photo is copied: false
	// descent is cheaper than propagate: true
	// nothing is cheaper than optimal: true
	// measured side by side, all give the same values: true
	// pass share (lets one node compute what several compute alike): score_pool is class_pool, score_flat is class_flat
	// checked after every pass, but for 0 outputs
	// class of 10 elements as the ops define it: true
	// score of 10 elements as the ops define it: true
}
