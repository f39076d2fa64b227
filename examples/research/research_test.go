package main

func Example() {
	main()
	// Output:
	// a custom norm, priced by a custom cost profile:
	// propagate: implementation of the norm: planes, the photo is copied: false
	// channels_last: implementation of the norm: pixels, the photo is copied: true
	// optimal: implementation of the norm: pixels, the photo is copied: false
	// descent: implementation of the norm: pixels, the photo is copied: false
	// descent is cheaper than propagate: true
	// no strategy is cheaper than optimal: true
	// all strategies give the same values: true
	// pass cse (computes each common subexpression once): score_pool is class_pool, score_flat is class_flat
	// outputs not checked after every pass: 0
	// class: 10 elements agree with the references: true
	// score: 10 elements agree with the references: true
}
