package target

// ByteWindows configures the vector instructions of depthwise convolutions of bytes. depthwise.ByteSpec explains the
// order of channels and the fields that have the same names there.
type ByteWindows struct {
	Flip, SignedIn, Signed, Sums, Words bool

	Channels    int  // number of existing channels of partial vectors of AVX2 and NEON; 0 for all
	ChannelMask Word // bit mask of the channels, with AVX-512
	Spill       Word // first word of 32 bytes of scratch memory
	Temporary   GReg // free where results are stored
}
