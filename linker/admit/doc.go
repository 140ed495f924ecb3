// Package admit decides by what is on record whether a link may mirror a topic: the
// target's own record, what operators ordered, and what the source's record says of
// where its topics come from. klink run obeys it, and klink plan tells it beforehand.
//
// Everything here is a pure function of values.
//
// Invariants:
//
//	AD1  No refusal follows from what is not known: a record that is missing, a
//	     cluster without a name and a topic that was not looked at admit.
//	AD2  A target topic that is not the one on record is never written to, unless it
//	     was made just now by whoever asks.
package admit
