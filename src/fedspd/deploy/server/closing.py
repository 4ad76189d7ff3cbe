"""The end of a run: what each site says that it was charged."""

from dataclasses import replace

from fedspd.deploy.protocol import messages
from fedspd.deploy.server.checkpoint import Checkpoint
from fedspd.deploy.server.post import Post, Say

LARGEST_EPSILON = 1e6  # that is believed of a site's statement


def with_statements(post: Post, checkpoint: Checkpoint, seconds: float, say: Say) -> Checkpoint:
    """Ask every site; who is silent, or says what cannot be, keeps what it last reported."""
    requests = {member.node: messages.Close(member.terms) for member in checkpoint.roster}
    answers = post.ask("query.close", requests, seconds, "the end")
    for place, member in enumerate(checkpoint.roster):
        match answers.content.get(member.node):
            case messages.Closed(terms, charges, epsilon) if (
                terms == member.terms
                and member.charges <= charges <= member.planned
                and not (epsilon < 0 or epsilon > LARGEST_EPSILON)
            ):
                checkpoint = checkpoint.with_member(place, charges=charges, epsilon=epsilon)
            case _:
                say(f"{member.site} sent no statement")
    return replace(checkpoint, finished=True)
