package pricing_test

import (
	"fmt"

	"github.com/graphrun/graphrun/pricing"
)

func Example() {
	profile := pricing.ShippedProfile("avx2")
	var work pricing.Work
	work.Bytes[pricing.Dense] = 1 << 20
	work.Footprint = 1 << 20
	fmt.Println(profile.PriceNS(work) > 10_000, work.Bytes[pricing.Dense])
	// Output: true 1.048576e+06
}
