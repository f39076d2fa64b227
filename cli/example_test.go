package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/graphrun/graphrun"
)

// A program's main function calls Main(WithStrategy(s)), which ends the process; this is the same for one command line.
// The strategy is known to all commands by its name.
func ExampleWithStrategy() {
	ext, err := extended([]Option{WithStrategy(renamed{graphrun.Contiguous})})
	if err != nil {
		fmt.Println(err)
		return
	}
	code := execute(context.Background(), ext, []string{"run", models + "/pointwise.json", "--strategy", "mine", "--seed",
		"1",
		"--outputs", "."}, os.Stdout, os.Stdout)
	fmt.Println(code)
	code = execute(context.Background(), ext, []string{"plan", models + "/pointwise.json", "--strategy", "mime"},
		os.Stdout,
		os.Stdout)
	fmt.Println(code)
	// Output:
	// graphrun: --outputs .: want a .npz file
	// 2
	// graphrun: unknown strategy "mime": want one of propagate, contiguous, channels_last, greedy, favourite, push, optimal, mine; did you mean mine?
	// 2
}
