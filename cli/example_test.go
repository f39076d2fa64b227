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
	ext, err := extensionsOf([]Option{WithStrategy(renamed{graphrun.Contiguous})})
	if err != nil {
		fmt.Println(err)
		return
	}
	code := execute(context.Background(), ext, []string{"run", models + "/pointwise.json", "--strategy", "mine", "--seed",
		"1",
		"--outputs", "."}, os.Stdout, os.Stdout)
	fmt.Println(code)
	code = execute(context.Background(), ext, []string{"diff", models + "/pointwise.json", "--strategies", "mine"},
		os.Stdout, os.Stdout)
	fmt.Println(code)
	// Output:
	// graphrun: --outputs .: the file must have the extension .npz
	// 2
	// graphrun: --strategies mine: want a second strategy, a second file, --pin, --slack or a second size of --dim to compare with
	// 2
}
