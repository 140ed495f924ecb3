// Package proxy is a TCP proxy in front of one Kafka broker that makes the
// network fail in chosen ways, at run time and at chosen requests.
//
// It reads frame headers only (length, API key, version, correlation id), so it
// works with every version of every API. A proxy made Opaque reads nothing, for
// TLS: then only what concerns whole connections works.
//
// Promises:
//
//	X1  Without faults every byte passes, in order, and nothing else does.
//	X2  A fault chosen by a hook happens at exactly the request that the hook was
//	    called for. DropAnswer, CutAfter and Mute come after all earlier answers of
//	    the connection have passed; the other cuts lose, as any reset does, what is
//	    on its way at that moment.
//	X3  After DropAnswer, CutSent and Mute the broker has got the whole request
//	    and is left time to carry it out; after CutBefore and Swallow it never
//	    gets a complete one.
//	X4  Close returns when no connection and no goroutine of the proxy is left.
package proxy
