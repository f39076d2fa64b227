package calibrate_test

import (
	"context"
	"fmt"
	"time"

	"github.com/graphrun/graphrun/calibrate"
)

// A machine is measured once; the measured rates price plans (graphrun.Options.Costs) and can be kept as a file. This
// is as short as it goes, and as rough.
func Example() {
	o := calibrate.Options{Rounds: 1, CallTime: time.Microsecond, MaxBytes: 1 << 20}
	r, err := calibrate.Run(context.Background(), o)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Profile.StepPS > 0, len(r.Points) > 100, len(r.Profile.Digest()))
	// Output: true true 64
}
