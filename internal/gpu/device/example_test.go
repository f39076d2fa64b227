package device_test

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/gpu/device"
)

func ExampleGrid() {
	x, y := device.Grid(100_000)
	fmt.Println(x, y, x*y >= 100_000)
	// Output: 65535 2 true
}
