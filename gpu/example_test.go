package gpu_test

import (
	"fmt"

	"github.com/graphrun/graphrun/gpu"
	"github.com/graphrun/graphrun/internal/gpu/device"
)

// Copies bytes from one buffer to another on every device of the machine. There may be none.
func ExampleOpen() {
	copied := true
	list, _ := gpu.Open()
	for _, d := range list {
		from, err := d.Alloc(4, true)
		if err != nil {
			continue
		}
		to, err := d.Alloc(4, true)
		if err != nil {
			continue
		}
		copy(from.Bytes, "copy")
		err = d.Run([]device.Step{{From: from, To: to, Bytes: 4}})
		copied = copied && err == nil && string(to.Bytes) == "copy"
		from.Free()
		to.Free()
		d.Close()
	}
	fmt.Println(copied)
	// Output: true
}
