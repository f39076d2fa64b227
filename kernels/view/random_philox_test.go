package view

import (
	"testing"
)

// TestPhilox holds the generator against the numbers of the Random123 library.
func TestPhilox(t *testing.T) {
	if got := philox(0, 0); got != [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8} {
		t.Errorf("philox of zeros is %x", got)
	}
}
